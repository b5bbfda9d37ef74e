"""The dialects: the same services under the words that other programs use. A dialect only translates.

Its words stay in this folder: a body becomes what the services take, and what they return becomes the dialect's answer.
"""
