"""What the page draws: timelines, counts over time, the squares of the map, lanes of a rollout."""
