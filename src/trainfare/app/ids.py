"""Short names for things: a letter for the kind and four characters that are hard to confuse."""

import secrets

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_id(letter: str) -> str:
    """`p7k2m`: one of 900 000, so a store of forty a week meets a second one once in centuries; appending
    refuses a name that is taken."""
    return letter + "".join(secrets.choice(_ALPHABET) for _ in range(4))


def id_from(letter: str, digest: bytes) -> str:
    """A name that follows from a digest, twelve characters long: two requests meet once in 7 · 10¹⁷."""
    number = int.from_bytes(digest)
    characters = []
    for _ in range(12):
        number, place = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[place])
    return letter + "".join(characters)
