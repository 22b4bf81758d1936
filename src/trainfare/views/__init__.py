"""What is shown: JSON records and sentences, made from nouns. Pure: no flag, no colour, no terminal."""
