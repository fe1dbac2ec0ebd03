#!/usr/bin/python3
"""Connects to a SPICE server as remote-viewer does, with the library that remote-viewer is made of.

usage: spice_client.py HOST PORT [CHANNEL...], the password on standard input

Prints "in" when the main channel is open and the server has offered each of the other channels (their names in
SPICE, such as display, playback, usbredir), "out" when the password was refused, and "error REASON" for everything else.
"""
import sys

import gi

gi.require_version("SpiceClientGLib", "2.0")
from gi.repository import GLib, GObject, SpiceClientGLib as Spice  # noqa: E402

PATIENCE_SECONDS = 60


def main():
    host, port, *wanted = sys.argv[1:]
    missing = {"main", *wanted}
    loop = GLib.MainLoop()
    results = []

    def end(result):
        results.append(result)
        loop.quit()

    def on_event(channel, event):
        if event == Spice.ChannelEvent.OPENED:
            missing.discard("main")
            if not missing:
                end("in")
        elif event == Spice.ChannelEvent.ERROR_AUTH:
            end("out")
        else:
            end("error " + event.value_nick)

    def on_channel(_session, channel):
        name = Spice.Channel.type_to_string(channel.get_property("channel-type"))
        if name == "main":
            GObject.Object.connect(channel, "channel-event", on_event)
        elif name in missing:
            missing.discard(name)
            if not missing:
                end("in")

    session = Spice.Session(host=host, port=port, password=sys.stdin.readline().rstrip("\n"))
    GObject.Object.connect(session, "channel-new", on_channel)
    GLib.timeout_add_seconds(PATIENCE_SECONDS, end, "error timed out, missing: " + ", ".join(sorted(missing)))
    if not session.connect():
        end("error cannot connect")
    else:
        loop.run()
    print(results[0])


main()
