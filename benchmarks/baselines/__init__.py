"""Published models that ours are compared with; the product does not use them."""
