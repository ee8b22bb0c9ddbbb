"""Reports: tables, figures and pages made from records of runs."""
