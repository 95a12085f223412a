"""What many submissions a second need of AWS: which limit binds first, the right settings, and what it costs."""
