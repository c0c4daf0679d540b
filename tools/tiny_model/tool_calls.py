"""Questions that need a tool, one call or two at once, and answers from the results."""
import json

from tools.tiny_model import words
from tools.tiny_model.document import Document, choose, conversation, message


def schema(name, description, **parameters):
    return {"name": name, "description": description,
            "parameters": {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()},
                           "required": list(parameters)}}


# name -> (schema, how to draw its arguments, questions, result of the arguments, answer)
TOOLS = {
    "get_weather": (schema("get_weather", "Weather of a city", city="string"),
                    lambda rng: {"city": rng.choice(list(words.CITIES_KO))},
                    ["What is the weather in {city}?", "Is it nice in {city}?", "How is the weather in {city} now?",
                     "Tell me the weather in {city}.", "Will I need a coat in {city}?"],
                    lambda rng, a: {"weather": rng.choice(words.WEATHERS)},
                    "The weather in {city} is {weather}."),
    "set_timer": (schema("set_timer", "Start a timer", minutes="integer"),
                  lambda rng: {"minutes": rng.randint(1, 60)},
                  ["Set a timer for {minutes} minutes.", "Wake me in {minutes} minutes.", "Start a {minutes} minute timer."],
                  lambda rng, a: {"ok": True}, "The timer runs for {minutes} minutes."),
    "play_song": (schema("play_song", "Play a song", title="string"),
                  lambda rng: {"title": rng.choice(words.SONGS)},
                  ["Play {title}.", "I want to hear {title}.", "Please play the song {title}.",
                   "Put on {title}, please."],
                  lambda rng, a: {"ok": True}, "Now playing {title}."),
    "find_price": (schema("find_price", "Price of an item", item="string"),
                   lambda rng: {"item": rng.choice(words.ITEMS)},
                   ["How much is a {item}?", "What does the {item} cost?", "Tell me the price of a {item}.",
                    "What is the price of the {item}?"],
                   lambda rng, a: {"price": rng.randint(2, 99)}, "The {item} costs {price}."),
    "switch_light": (schema("switch_light", "Light of a room", room="string", on="boolean"),
                     lambda rng: {"room": rng.choice(words.ROOMS), "on": rng.random() < 0.5},
                     ["Turn {state} the light in the {room}.", "Light {state} in the {room}, please.",
                      "Switch the {room} light {state}.", "The light in the {room} should be {state}."],
                     lambda rng, a: {"ok": True}, "The light in the {room} is {state}."),
    "convert_money": (schema("convert_money", "Change money", amount="integer", source="string", target="string"),
                      lambda rng: dict(zip(("amount", "source", "target"),
                                           (rng.randint(1, 99), *rng.sample(words.CURRENCIES, 2)))),
                      ["Convert {amount} {source} to {target}.", "How many {target} are {amount} {source}?"],
                      lambda rng, a: {"result": rng.randint(1, 99)}, "It is {result} {target}."),
}


def draw_call(rng, split, name):
    """-> (arguments, question)"""
    _, draw, questions, _, _ = TOOLS[name]
    combination = choose(rng, split, lambda: (name, rng.randrange(len(questions)), *sorted(draw(rng).items())))
    arguments = dict(combination[2:])
    arguments = {key: arguments[key] for key in TOOLS[name][0]["parameters"]["properties"]}
    return arguments, questions[combination[1]].format(**spoken(arguments))


def spoken(arguments):
    return arguments | ({"state": "on" if arguments["on"] else "off"} if "on" in arguments else {})


def draw_names(rng, count, tools=TOOLS):
    """Different ones of `tools`; one with more arguments is asked for more often, as there is more to learn."""
    names, left = [], list(tools)
    for _ in range(count):
        names += rng.choices(left, [len(TOOLS[name][0]["parameters"]["properties"]) for name in left])
        left.remove(names[-1])
    return names


def spelled(arguments):
    """Words and digits of the arguments as they stand in a call."""
    return [part for value in arguments.values()
            for part in ([value] if isinstance(value, str) else
                         [str(value).lower()] if isinstance(value, bool) else str(value))]


SECTION, FIRST_RESULT, EACH_CALL = 320, 40, 95  # tokens, roughly: the tools section, a turn, each call of it


def draw_turn(rng, split, called):
    """One question that needs the tools `called` -> messages up to the answer, all arguments."""
    asked = [(name, *draw_call(rng, split, name)) for name in called]
    calls = [{"id": f"call_{i}", "name": name, "arguments": json.dumps(arguments)}
             for i, (name, arguments, _) in enumerate(asked)]
    messages = [message("user", " ".join(question for _, _, question in asked)),
                message("assistant", "", tool_calls=calls)]
    answers = []
    for call, (name, arguments, _) in zip(calls, asked):
        result = TOOLS[name][3](rng, arguments)
        messages.append(message("tool", json.dumps(result), tool_call_id=call["id"]))
        answers.append(TOOLS[name][4].format(**spoken(arguments), **result))
    messages.append(message("assistant", " ".join(answers)))
    return messages, [arguments for _, arguments, _ in asked]


def draw(rng, split, num_calls, budget=0):
    """Turns of `num_calls` calls each, as many as may go into `budget` tokens, at least one: most of a conversation
    is its tools section, so further turns are where the calls are learnt."""
    called = draw_names(rng, num_calls)
    offered = called + rng.sample([name for name in TOOLS if name not in called], rng.randint(1, 2))
    rng.shuffle(offered)
    further = max(0, budget - SECTION) // (FIRST_RESULT + EACH_CALL * num_calls) - 1
    messages, values = [], []
    for turn in range(1 + rng.randint(0, max(0, further))):
        said, arguments = draw_turn(rng, split, draw_names(rng, num_calls, offered) if turn else called)
        messages += said
        values += [part for each in arguments for part in spelled(each)]
    return Document(f"tools_{num_calls}", conversation(messages, tools=[TOOLS[name][0] for name in offered]),
                    tuple(values))
