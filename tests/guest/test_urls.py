"""URLs of hooks and peers: made ASCII, or refused with what is allowed."""

import pytest

from fairwarning.guest.agent.urls import parse_url

pytestmark = pytest.mark.spec("G4")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://a", "http://a"),
        ("HTTPS://A.Example.:8443/X?y=1&z=%20", "https://a.example.:8443/X?y=1&z=%20"),
        ("http://under_score-1/", "http://under_score-1/"),
        ("http://10.0.0.1:80/", "http://10.0.0.1:80/"),
        ("http://[::1]:8172/x", "http://[::1]:8172/x"),
        ("http://[FE80::1%Eth0]/", "http://[fe80::1%Eth0]/"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
        ("http://a/b c/\u00fc?d e=\u20ac", "http://a/b%20c/%C3%BC?d%20e=%E2%82%AC"),
        ("http://a/100%/%zz/%41", "http://a/100%25/%25zz/%41"),
        ('http://a/"<>\\^`{|}', "http://a/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("http://a?b/c?d", "http://a?b/c?d"),
        ("http://a//b/;c=1,2:@!$'()*", "http://a//b/;c=1,2:@!$'()*"),
    ],
)
def test_a_url_becomes_ascii(text: str, url: str) -> None:
    """What is encoded stays so; reading the result again changes nothing."""
    assert parse_url(text) == (url, "")
    assert parse_url(url) == (url, "")
    assert url.isascii()


@pytest.mark.parametrize(
    ("user_info", "authorization"),
    [
        ("me:secret", "bWU6c2VjcmV0"),
        ("me", "bWU6"),
        ("me:a:b", "bWU6YTpi"),
        ("me%40home:%2F%3A", "bWVAaG9tZTovOg=="),
        ("me:p@ss", "bWU6cEBzcw=="),
        ("m\u00fc:\u20ac", "bcO8OuKCrA=="),
    ],
)
def test_credentials_become_a_header(user_info: str, authorization: str) -> None:
    """Percent-encoded or not, as UTF-8."""
    assert parse_url(f"https://{user_info}@a/x") == ("https://a/x", f"Basic {authorization}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/b", "begin with http"),
        ("file:///etc/passwd", "begin with http"),
        ("http:///x", "host"),
        ("http://user:word@/x", "host"),
        ("http://a b/", "host"),
        ("http://a\\b/", "host"),
        ("http://%61/", "host"),
        ("http://a%eth0/", "host"),
        ("http://lb..example.org/", "host"),
        ("http://.../", "host"),
        (f"http://{'a' * 64}/", "host"),
        (f"http://{'a.' * 200}b/", "host"),
        ("http://" + "\u00fc" * 70, "host"),
        ("http://[::1/", "host"),
        ("http://a:0/", "port"),
        ("http://a:99999/", "port"),
        ("http://a:x/", "port"),
        ("http://a/b\nc", "control character"),
        ("http://a/b\tc", "control character"),
        ("http://a/#b", "%23"),
        ("http://:word@a/", "USER:PASSWORD"),
        ("http://@a/", "USER:PASSWORD"),
        ("http://a%3Ab:word@a/", "USER:PASSWORD"),
        ("http://me:wo%0Ard@a/", "USER:PASSWORD"),
    ],
)
def test_other_urls_are_refused(text: str, reason: str) -> None:
    """The message says what is allowed, and contains no credentials."""
    with pytest.raises(ValueError, match=reason) as refused:
        parse_url(text)
    assert "word" not in str(refused.value)
