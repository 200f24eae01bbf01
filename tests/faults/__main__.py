"""Attack running jobs, and print what came of it: `python tests/faults --attacks 100 --seed 1`.

Every attack is drawn from the seed and its number, which are printed: `--only NUMBER` repeats one.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import jobs
import kinds


def arguments():
    parser = argparse.ArgumentParser(prog="python tests/faults", description=__doc__.splitlines()[0])
    parser.add_argument("--attacks", type=int, default=2 * len(kinds.KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of the attacks to repeat")
    parser.add_argument("--first", type=int, default=0, help="the number of the first attack")
    return parser.parse_args()


def series(bench, seed, numbers, say=print) -> tuple[dict[str, Counter], list[str]]:
    """Carry out attacks; {kind: outcomes}, and what failed."""
    outcomes, failed = {}, []
    for number in numbers:
        plan, started = kinds.draw(seed, number), time.monotonic()
        place = bench.directory / f"attack{seed}-{number}"
        place.mkdir()
        try:
            outcome, tries = kinds.carry_out(bench, plan, place)
        except AssertionError as error:
            outcome, tries = "FAILED", 1
            failed.append(f"--seed {seed} --only {number}: {plan}\n{error}")
        except Exception:
            outcome, tries = "FAILED", 1
            failed.append(f"--seed {seed} --only {number}: {plan}\n{traceback.format_exc()}")
        outcomes.setdefault(plan.kind, Counter())[outcome] += 1
        text = f"{outcome}{f' (at try {tries})' if tries > 1 else ''}, {time.monotonic() - started:.1f} s"
        say(f"{number:4d}  {plan}: {text}", flush=True)
    return outcomes, failed


def table(outcomes: dict[str, Counter]) -> list[str]:
    """A row for each kind: how many, and how they ended."""
    rows = ["| attack | times | came of it | then the same bits |", "|---|---|---|---|"]
    for kind in kinds.KINDS:
        if found := outcomes.get(kind):
            words = ", ".join(f"{outcome} {n}" for outcome, n in sorted(found.items()) if outcome != "FAILED")
            right = found.total() - found["FAILED"]
            rows.append(f"| {kind} | {found.total()} | {words} | {right} |")
    total = sum((found for found in outcomes.values()), Counter())
    rows.append(f"| all | {total.total()} | | {total.total() - total['FAILED']} |")
    return rows


def main():
    options = arguments()
    numbers = options.only or range(options.first, options.first + options.attacks)
    with tempfile.TemporaryDirectory() as directory:
        outcomes, failed = series(jobs.Bench(Path(directory)), options.seed, numbers)
    print("", *table(outcomes), sep="\n")
    print("".join(f"\nFAILED {each}\n" for each in failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
