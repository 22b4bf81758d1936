"""Public tables of measurements that the models are fitted to, read into the nouns of `model/measurement.py`.

The tables are not shipped. `read.py` lists the files of a folder of tables; each other file reads one table.
"""
