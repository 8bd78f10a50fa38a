"""What the page draws: timelines, counts over time, and the squares of the map."""
