"""The broker passes hints between masters: wake-ups, windows over ready tasks, live figures. Everything in it may be
lost; the store holds the truth."""
