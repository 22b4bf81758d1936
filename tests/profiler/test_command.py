"""The words of a command: options that block the probe, and setting an option."""

import pytest

from trainfare.profiler.command import option_words, probe_blocking_flag, with_option


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("python -I train.py", "-I"),
        ("/usr/bin/python3.12 -E train.py", "-E"),
        ("env A=1 python -uS -m train", "-S"),
        ("python -W ignore -I train.py", "-I"),
        ("python -Wignore -X dev -E train.py", "-E"),
    ],
)
def test_option_that_blocks_the_probe_is_found(command: str, flag: str) -> None:
    assert probe_blocking_flag(command.split()) == flag


@pytest.mark.parametrize(
    "command",
    [
        "python train.py -I",
        "python -m train -E",
        "python -c -S",
        "python -W E -X I train.py",
        "python -us train.py",
        "torchrun --nproc-per-node 2 train.py",
        "bash -E run.sh",
        "python",
    ],
)
def test_other_commands_do_not_block_the_probe(command: str) -> None:
    assert probe_blocking_flag(command.split()) is None


@pytest.mark.parametrize(
    ("words", "template", "expected"),
    [
        ("python t.py --batch-size 64 --lr 1", "--batch-size {}", "python t.py --batch-size 128 --lr 1"),
        ("python t.py --batch-size=64", "--batch-size {}", "python t.py --batch-size=128"),
        ("python t.py --batch-size 64", "--batch-size={}", "python t.py --batch-size 128"),
        ("python t.py --batch-size=64", "--batch-size={}", "python t.py --batch-size=128"),
        ("python t.py -b64", "-b{}", "python t.py -b128"),
        ("python t.py -b 64", "-b {}", "python t.py -b 128"),
        ("python t.py data.batch=64", "data.batch={}", "python t.py data.batch=128"),
        ("python t.py 64", "--batch-size {}", "python t.py 64 --batch-size 128"),
        ("python t.py", "--batch-size={}", "python t.py --batch-size=128"),
        ("python t.py --batch-size", "--batch-size {}", "python t.py --batch-size --batch-size 128"),
    ],
)
def test_option_is_replaced_or_added_at_the_end(words: str, template: str, expected: str) -> None:
    assert with_option(words.split(), template, 128) == tuple(expected.split())


@pytest.mark.parametrize("template", ["", "{}", "--batch-size", "--b {} {}", "{} --b", "--b '{}", "--b x {}"])
def test_option_without_a_placeholder_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"must be an option|cannot be split into words"):
        option_words(template)
