"""Names for runs and models whose client gave none: an adjective, an animal and a number."""

import secrets

_ADJECTIVES = """able agile amber bold brave bright brisk calm clever crisp deft eager fair fleet fond gentle glad grand
keen kind lively loyal lucid merry mild modest neat noble patient proud quick quiet rapid sharp sleek smart steady swift
tidy upbeat vivid warm wise witty"""
_ANIMALS = """ant bass bear bee bird boar bug carp cat chimp colt conch cow crab crane croc crow deer dolphin dove duck
eel elk fawn finch fish flea fly foal fowl fox frog gnat goat goose grouse gull hare hawk hen hog horse hound jay kite
koi lamb lark loon lynx mare midge mink mole moose moth mouse mule newt owl ox panda perch pig pug quail ram rat ray
robin rook seal shark sheep shrew shrimp skunk sloth slug snail snipe squid stag steed stoat stork swan tern toad trout
turtle vole wasp whale wolf worm wren yak zebra"""


def random_name() -> str:
    adjective, animal = (secrets.choice(words.split()) for words in (_ADJECTIVES, _ANIMALS))
    return f"{adjective}-{animal}-{secrets.randbelow(1000)}"
