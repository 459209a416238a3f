/*
 * The texts. A flag or command that is not there is not in them; a new one comes with its line
 * here in the same commit.
 */

#include "server/help.h"

const char tr_help_text[] =
    "tarry keeps jobs on disk and hands them out when they are due.\n"
    "\n"
    "usage: tarry COMMAND [FLAGS]\n"
    "\n"
    "  serve      open a store and keep it until told to stop\n"
    "  version    print the version\n"
    "  help       print this; `tarry help serve` prints the flags of serve\n"
    "\n"
    "examples:\n"
    "  tarry serve                            data in ./tarry-data\n"
    "  tarry serve --data /var/tmp/tarry      data in another directory\n"
    "\n"
    "exit codes: 0 fine, 1 failure at run time, 2 wrong usage,\n"
    "            3 the store is damaged or was written by a newer tarry\n";

const char tr_help_serve_text[] =
    "usage: tarry serve [--data DIR] [--sync always|50ms|never]\n"
    "\n"
    "Opens the store in DIR, or makes one, and keeps it until told to stop. This\n"
    "version listens on no port yet.\n"
    "\n"
    "  --data DIR     where the data is; default ./tarry-data. DIR is made if it is\n"
    "                 not there, its parent must be. One server at a time.\n"
    "  --sync WHEN    when success is answered:\n"
    "                   always  after the disk has it (default); survives kill -9\n"
    "                           and a power cut\n"
    "                   50ms    at once; kill -9 can take back the last moments,\n"
    "                           a power cut the last 50 ms or so\n"
    "                   never   at once; a power cut can take back all that the\n"
    "                           kernel had not written yet\n"
    "  --help         print this\n"
    "\n"
    "signals:\n"
    "  SIGTERM, SIGINT   finish what is being written, close the store, exit 0\n"
    "  SIGUSR1           drain: take no new jobs from now on\n"
    "  SIGHUP            nothing yet: there is no config file to read again\n"
    "\n"
    "examples:\n"
    "  tarry serve\n"
    "  tarry serve --data /var/tmp/tarry --sync 50ms\n"
    "  kill -TERM PID                         stop it\n";
