"""The HTTP service: predict, infer tasks, learn and exchange contexts; its Python client and its web page.

`app` puts everything together. `routes/` has one file a group of endpoints, `page/` the web page; `access`, `body`,
`names` and `schemas` read requests, `batcher` and `jobs` are the threads that predict and learn, `middleware` wraps
every request. `client` needs none of these.
May import: `report`, `insight`, `experiments`, `methods`, `scenarios`, `learner`, `training`, `contexts`, `data`,
`models`, `layers`, `errors`.
"""
