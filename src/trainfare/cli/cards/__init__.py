"""What commands print: cards of nouns, screens of progress, pages of documents."""
