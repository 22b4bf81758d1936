"""The number of epochs that a training needs."""
