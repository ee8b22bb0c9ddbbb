"""crwn inside other people's tools; importing this room imports none of them."""
