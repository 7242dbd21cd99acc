"""A small real RAG application, its users, an incident, and the truth that Groundwatch does not get to see."""
