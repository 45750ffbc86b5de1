"""What the store holds, how it grows, and what in it nobody needs any more."""
