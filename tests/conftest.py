"""Files of tests that take minutes come first, so that no process is left alone with one at the end."""

LONGEST = ("test_same_bits.py",)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
