"""Tables of public measurements, read into the nouns of `model/measurement.py`: what the models are fitted to.

The tables are not shipped. `read.py` says which files a folder of them holds; one file here reads one table.
"""
