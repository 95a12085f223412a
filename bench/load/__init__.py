"""`make load`: many creations and forced retries at once against the local stack, judged by every job's end."""
