"""Imports past runs without a rerun: one file reads one kind of log, `build_profile.py` makes a Profile of it.

run_log.py        what a reader returns, and what the user adds to it
series.py         scalars by step                            metric_names.py   the meaning of names in a log
tensorboard.py    TensorBoard, with event_file.py            hugging_face.py   trainer_state.json
wandb.py          Weights & Biases                           mlflow.py         file store and SQLite store
keras_csv.py      Keras' CSVLogger                           csv_table.py      any other CSV file
spark.py          event log of Spark, by its jobs
files.py          finding and opening files                  csv_rows.py, protobuf.py   the formats
"""
