"""Tables, figures and the HTML page, made from the records of runs.

`records` reads run folders; `suite_tables` and `figures` print what the paper prints; `page` writes the report that
`crwn report` makes, with `interactive` figures. Nothing is trained here. May import: `insight`, `experiments`,
`methods`, `scenarios`, `learner`, `training`, `contexts`, `data`, `models`, `layers`, `_utils`, `errors`.
"""
