"""The report as a page: one HTML file with its pictures in it, drawn from a judged history alone. Pure, but for `__main__`.

    document   the page, from `page.html.j2`       timeline  the whole run in one picture, a row for each tenant
    panels     an experiment as small multiples    drawing   scales and elements of SVG

`python -m e2e.chaos.page build/results/chaos-history.jsonl.gz` draws it again.
"""
