"""Logistic regression with Spark's MLlib: every iteration of its solver is a job of Spark.

spark-submit --conf spark.eventLog.enabled=true --conf spark.eventLog.compress=false \
    --conf spark.eventLog.dir=file:///tmp/spark-events examples/spark_mllib.py 200000
trainfare import spark /tmp/spark-events
trainfare run --nodes 2 --on ssh/lab -- spark-submit examples/spark_mllib.py 200000
"""
# mypy: ignore-errors

import sys

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql.functions import rand, randn


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    spark = SparkSession.builder.appName("logistic regression").getOrCreate()
    points = spark.range(samples).withColumn("label", (rand(1) > 0.5).cast("double"))
    for number in range(4):
        points = points.withColumn(f"x{number}", randn(2 + number) + points.label * (number + 1) / 4)
    assembler = VectorAssembler(inputCols=[f"x{number}" for number in range(4)], outputCol="features")
    data = assembler.transform(points).cache()
    model = LogisticRegression(maxIter=20, tol=0.0).fit(data)
    summary = model.summary
    print(f"{summary.totalIterations} iterations, accuracy {summary.accuracy:.4f}", *summary.objectiveHistory[-1:])
    spark.stop()


if __name__ == "__main__":
    main()
