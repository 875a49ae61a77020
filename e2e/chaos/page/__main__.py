"""`python -m e2e.chaos.page HISTORY [-o FILE] [--timeline FILE]`: judge a kept history again and draw its page."""

import argparse
import sys
from pathlib import Path

from e2e.chaos import judgement, kept
from e2e.chaos.page import document, timeline


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.chaos.page", description="Draw the page of a chaos run from its history.")
    parser.add_argument("history", type=Path, help="such as build/results/chaos-history.jsonl.gz")
    parser.add_argument("-o", "--out", type=Path, help="the page; chaos.html beside the history by default")
    parser.add_argument("--timeline", type=Path, help="also the picture of the whole run, as an SVG of its own")
    chosen = parser.parse_args()
    try:
        judged = judgement.judge(kept.read(chosen.history))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        parser.error(f"{chosen.history} is not a history of a chaos run: {exc}")
    out = chosen.out or chosen.history.with_name("chaos.html")
    out.write_text(document.html(judged))
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")
    if chosen.timeline:
        chosen.timeline.write_text(timeline.standalone(judged))
        print(f"{chosen.timeline}: {chosen.timeline.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
