"""What runs on a rented machine; standard library only. Empty until plans are carried out."""
