"""Files written by scripts/generate_client.py: the API's models, and the blocking client."""
