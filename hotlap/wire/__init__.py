"""The DonkeyCar simulator's protocol: messages, codec, client and server."""
