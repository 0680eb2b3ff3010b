"""Access to the daemon: the guard, its tokens, refused logins, the state folder."""
