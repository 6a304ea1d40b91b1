"""What is OpenAI's in both Chat and Responses: typed reads, functions, options, counts, errors and their classes."""
