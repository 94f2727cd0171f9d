"""A model behind HTTP: an API for programs, a page for people.

From the outside in: `connections` drops clients that keep it waiting, `guard` lets requests pass (`access`, `bodies`)
and counts them (`metrics`), `app` answers them by a `schema`, `batching` and `writing` take them to the model, and
`page` shows the same in a browser. `serving` puts it together.
"""
