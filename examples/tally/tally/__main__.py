import sys

from tally import entries, totals


def main(argv):
    if len(argv) != 1:
        print("usage: python3 -m tally FILE", file=sys.stderr)
        return 2
    try:
        with open(argv[0], newline="") as lines:
            hours = totals.by_project(entries.read(lines, argv[0]))
    except (OSError, entries.BadEntry) as error:
        print(error, file=sys.stderr)
        return 2
    for project, sum_of_hours in hours.items():
        print(f"{project}\t{sum_of_hours}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
