"""Write results/bench/hardness.md: each defect that an attack found, its test, and what two versions of the code do.

python scripts/hardness_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crwn.report.tables import aligned

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "results" / "bench" / "hardness.md"
BENCH = ROOT / "results" / "bench"
BEFORE, NOW = BENCH / "defects_before.json", BENCH / "defects.json"
ATTACK = BENCH / "attack.json"

# Defect -> what it is, and the test that guards it.
GUARDS = {
    "reader_without_rights": (
        "a reader without the right to write calls a healthy bank damaged, or sees old tasks for ever",
        "contexts/bank/test_changed_files.py::test_a_reader_without_rights_follows_a_writer_and_raises_no_false_alarms",
    ),
    "left_over_log": (
        "a copy restored beside a left-over log is damaged: `crwn backup` and `crwn restore`",
        "learner/test_backup.py::test_a_folder_in_use_is_backed_up_and_restored",
    ),
    "zeroed_checkpoint": (
        "zeroed tensors in a checkpoint are trained on",
        "training/test_checkpoint.py::test_changed_tensors_are_noticed_and_old_files_without_a_checksum_are_read",
    ),
    "replaced_bank": (
        "a put into a bank whose file was replaced is acknowledged",
        "contexts/bank/test_changed_files.py::test_a_file_that_is_replaced_or_deleted_while_open_is_noticed",
    ),
    "deleted_bank": (
        "a put into a bank whose file was deleted is acknowledged",
        "contexts/bank/test_changed_files.py::test_a_file_that_is_replaced_or_deleted_while_open_is_noticed",
    ),
    "killed_save": (
        "a killed `save` leaves a folder with part of its tasks",
        "learner/test_backup.py::test_a_save_that_is_interrupted_changes_nothing",
    ),
    "inference_holds_the_model": (
        "inferring among 20,000 tasks holds the model for seconds",
        "serve/test_loading.py::test_inferring_among_many_tasks_lets_predictions_through",
    ),
    "large_body_on_the_loop": (
        "a body of 15 MB of empty lists is parsed on the event loop",
        "serve/test_parsing.py::test_a_large_body_does_not_stop_other_requests",
    ),
    "half_sent_requests": (
        "half-sent requests are kept for ever",
        "serve/test_connections.py::test_requests_that_never_arrive_are_ended",
    ),
    "many_connections": (
        "with 1,100 idle connections, where 1,024 files may be open, nobody is answered",
        "serve/test_connections.py::test_new_clients_are_answered_however_many_connections_are_idle",
    ),
    "postgres_hangs": (
        "a PostgreSQL that hangs stops predictions of tasks in memory",
        "serve/test_postgres.py::test_a_server_that_hangs_stops_nothing_that_is_in_memory",
    ),
    "inference_refreshes": (
        "`/v1/infer-task` ranks with an old context after another service replaced it",
        "serve/test_loading.py::test_inference_sees_what_another_service_changed",
    ),
    "lists_hold_the_model": (
        "lists of forty clients leave no time to predictions",
        "serve/test_bank_calls.py::test_lists_of_many_clients_are_made_one_at_a_time",
    ),
    "lone_surrogate": (
        "a label that is no Unicode is stored, and lists fail",
        "contexts/test_checks.py::test_labels_that_not_every_reader_takes_are_refused",
    ),
    "deep_label": (
        "a label nested 150 deep is stored",
        "contexts/test_checks.py::test_labels_that_not_every_reader_takes_are_refused",
    ),
    "huge_fact": (
        "a fact of 10^400 is stored",
        "contexts/test_checks.py::test_facts_that_not_every_reader_takes_are_refused",
    ),
    "huge_scaling": (
        "a scaling of 10^400 per column",
        "contexts/test_info.py::test_a_scaling_that_cannot_be_used_is_refused",
    ),
    "huge_values": (
        "a context with values of 3e38 is stored",
        "contexts/test_checks.py::test_values_too_large_to_compute_with_are_refused",
    ),
    "one_bad_task": (
        "one unreadable stored task makes lists and the map fail",
        "contexts/test_checks.py::test_one_bad_stored_task_is_listed_with_what_is_wrong_and_the_others_as_always",
    ),
    "nul_in_a_label": (
        "the label `'a\\0'` is predicted as `'a'`",
        "contexts/test_checks.py::test_labels_that_not_every_reader_takes_are_refused",
    ),
    "npy_header": (
        "headers of `.npy` bodies answered with 500",
        "serve/test_body.py::test_headers_of_arrays_that_cannot_be_read",
    ),
    "npz_label": ("labels of `.npz` bodies out of Unicode", "serve/test_body.py::test_labels_that_are_no_text"),
    "deep_json": (
        "JSON nested up to 10^5 deep, in every field of bodies and contexts",
        "contexts/test_checks.py::test_the_same_is_refused_in_files_and_uploads",
    ),
    "nan_in_metrics": (
        "numbers that are not finite in `metrics.jsonl` and `result.json`",
        "experiments/test_folder.py::test_values_that_are_not_finite_are_damage",
    ),
    "deep_records": (
        "records of a run nested 10^5 deep",
        "experiments/test_folder.py::test_records_nested_too_deep_are_damage",
    ),
    "array_bomb": (
        "an array that declares 64 GB in a file of some hundred bytes: the memory is asked for first",
        "data/test_bounded.py::test_archives_that_declare_more_than_fits",
    ),
    "impossible_model": (
        "impossible sizes in `model.json`: weights are made first",
        "learner/test_backup.py::test_a_description_of_impossible_sizes_is_refused_before_weights_are_made",
    ),
    "burst_of_streams": (
        "300 event streams in a burst, of at most 64",
        "serve/routes/test_jobs.py::test_a_burst_of_streams_stays_within_the_limit",
    ),
    "host_with_token": (
        "with a token, any host name may read (DNS rebinding)",
        "serve/test_access.py::test_the_host_is_checked_with_a_token_too",
    ),
    "token_file": (
        "tokens only where `ps` shows them",
        "serve/test_access.py::test_a_token_is_the_first_line_of_its_file",
    ),
    "token_of_spaces": ("a token of spaces is taken", "serve/test_access.py::test_weak_tokens_are_refused"),
    "shown_password": ("passwords are printed", "serve/test_running.py::test_passwords_are_never_printed"),
    "bank_option": (
        "`crwn serve --bank` is not there",
        "serve/test_running.py::test_the_command_takes_its_bank_and_token_from_elsewhere",
    ),
    "source_archive": (
        "the fallback for MNIST runs code of a source archive",
        "data/sources/test_mnist.py::test_the_fallback_runs_no_code_and_takes_no_other_wheel",
    ),
    "early_signals": (
        "stop signals right after the start are ignored",
        "serve/test_running.py::test_a_signal_right_after_the_start_is_obeyed",
    ),
    "forks": (
        "a fork while threads predict hangs the child",
        "contexts/test_forking.py::test_children_predict_while_the_parent_does",
    ),
    "pickled": ("pickling a learner", "learner/test_backup.py::test_pickling_a_learner_says_what_to_do"),
}


# Kinds of the standing attack that were added with the defects they found -> what it was, and the tests.
BODIES = {
    "raw_headers": (
        "`X-Shape` of more than 64 numbers answered with 500",
        ("serve/test_body.py::test_raw_numbers_that_do_not_match_their_headers",),
    ),
    "endless_trailers": (
        "headers after a chunked body are kept without a limit",
        ("serve/test_connections.py::test_endless_trailers_are_refused",),
    ),
    "bodies_at_once": (
        "bodies of many clients, each within its limit, fill the memory together",
        ("serve/test_body.py::test_bodies_of_many_clients_are_held_within_a_limit",),
    ),
    "other_protocols": (
        "a wish for HTTP/2 loses the body, or makes a second request of it; two hosts are taken",
        (
            "serve/test_connections.py::test_a_body_is_not_taken_for_another_protocol",
            "serve/test_connections.py::test_two_host_headers_are_refused",
        ),
    ),
    "large_fields": (
        "15 MB of empty lists anywhere but in the rows of a prediction stop the service for seconds",
        (
            "serve/test_parsing.py::test_a_large_body_does_not_stop_other_requests",
            "serve/test_parsing.py::test_large_rows_by_column_name_are_parsed_in_parts",
        ),
    ),
    "table_bombs": (
        "a small archive of a table becomes gigabytes of cells; a large one holds Python's lock while it is read",
        (
            "data/tables/test_csv_file.py::test_text_of_too_many_cells_is_refused_before_it_is_split",
            "data/tables/test_csv_file.py::test_numbers_are_read_without_keeping_other_threads_waiting",
        ),
    ),
}


def tried(record: dict[str, Any], name: str) -> str:
    """What the standing attack met with one kind."""
    found = record["outcomes"].get(name)
    if found is None:
        return "not tried"
    waits = found["named_predictions"]
    failed = sum(waits["failed"].values())
    parts = [f"{found['broken']} of {found['tries']:,} broken", f"p99 {waits['p99_ms']:,.0f} ms"]
    return ", ".join([*parts, f"{failed} named predictions failed"] if failed else parts)


def outcome(record: dict[str, Any], name: str) -> str:
    found = record["outcomes"].get(name)
    if found is None:
        return "not tried"
    return "held" if found["held"] else found["what"].split("\n")[0].replace("|", "/")


def page() -> str:
    before, now = (json.loads(path.read_text()) for path in (BEFORE, NOW))
    rows = [
        (what, f"`tests/{test}`", outcome(before, name), outcome(now, name)) for name, (what, test) in GUARDS.items()
    ]
    attack = json.loads(ATTACK.read_text())
    bodies = aligned(
        ["defect of 7c0dd5a", "tests that guard it", "the attack's kind", "now"],
        [
            (what, ", ".join(f"`tests/{test}`" for test in tests), f"`{name}`", tried(attack, name))
            for name, (what, tests) in BODIES.items()
        ],
    )
    table = aligned(["defect", "the test that guards it", "before (0f0802a)", "now"], rows)
    return f"""# Defects that an attack found, and what guards against them

`benchmarks/defects.py` tries each defect through commands, HTTP and `Learner`, on the code before the mending (commit
0f0802a) and on this one. "held" means that the defect is not there; "not tried" that the script has no check for it, or
that it did not get to it. `benchmarks/attack.py` attacks the same places at length (`docs/serving.md`).
Of {before["checks"]} checks, {before["checks"] - before["held"]} found their defect in the older code, \
{now["checks"] - now["held"]} of {now["checks"]} in this one.

{table}

A record holds the checks of one or more calls of `python benchmarks/defects.py --tasks 20000 --add --json FILE`, for
the older code with `PYTHONPATH` naming it; `--only` in a recorded command names the checks of the last call.

## Found by trying what the attack did not have

Each of these tests fails on commit 7c0dd5a. The standing attack has a kind for each: how many of its tries broke
something, and the p99 of predictions with a named task meanwhile.

{bodies}

Three further defects were found by hand:

- a worker that is stopped kept `/metrics` and changes of the others waiting for ever:
  `tests/serve/test_group.py::test_a_process_that_hangs_keeps_nobody_waiting`;
- on a full disk, `crwn backup` and opening advised to restore a healthy bank:
  `tests/learner/test_backup.py::test_on_a_full_disk_nothing_is_called_damaged`;
- Ctrl-C while a slow machine imports the command printed a traceback:
  `tests/cli/test_commands.py::test_ctrl_c_before_the_command_is_imported_prints_no_traceback`.

One was found by the attack's `learning_flood`: what was still arriving of a body whose request had been refused counted
as the head of the next request, which got 431 (fails on commit fbde133):
`tests/serve/test_connections.py::test_the_body_of_a_request_that_was_answered_early_is_not_taken_for_a_head`.
"""


def main() -> None:
    PAGE.write_text(page())
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
