"""How many epochs a training needs."""
