"""What a team may use, what it has used, and what that costs."""
