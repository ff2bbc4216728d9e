"""What is said of a capture, once, as parts of a document that every form of a report draws."""
