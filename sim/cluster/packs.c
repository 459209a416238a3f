/*
 * What our scripts use of the library `struct` that Redis gives to Lua: numbers as bytes in the
 * order of the network (B, I4, I7 ...) and strings of a fixed length (c8). Anything else fails the
 * run.
 */

#include "packs.h"

#include <lauxlib.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { WIDEST = 8 };

/* The next item of a format: its letter, and how many bytes it takes. */
static bool next_item(const char **at, char *kind, size_t *width)
{
    if (**at == '>') {
        (*at)++;
    }
    *kind = *(*at)++;
    *width = 1;
    if (*kind == 'I' || *kind == 'c') {
        char *end;

        *width = strtoul(*at, &end, 10);
        *at = end;
    }
    return *kind != '\0';
}

static int pack(lua_State *lua)
{
    const char *format = luaL_checkstring(lua, 1);
    luaL_Buffer out;
    size_t width;
    char kind;

    luaL_buffinit(lua, &out);
    for (int arg = 2; next_item(&format, &kind, &width); arg++) {
        if (kind == 'c') {
            size_t len;
            const char *text = luaL_checklstring(lua, arg, &len);

            luaL_argcheck(lua, len >= width, arg, "string too short");
            luaL_addlstring(&out, text, width);
        } else {
            uint64_t v = (uint64_t)luaL_checknumber(lua, arg);

            luaL_argcheck(lua, (kind == 'B' || kind == 'I') && width <= WIDEST, 1, "not known");
            for (size_t i = width; i > 0; i--) {
                luaL_addchar(&out, (char)(unsigned char)(v >> 8 * (i - 1) & 255));
            }
        }
    }
    luaL_pushresult(&out);
    return 1;
}

static int unpack(lua_State *lua)
{
    const char *format = luaL_checkstring(lua, 1);
    size_t len, width;
    const char *text = luaL_checklstring(lua, 2, &len);
    size_t at = (size_t)luaL_optinteger(lua, 3, 1) - 1;
    char kind;

    lua_settop(lua, 2);
    while (next_item(&format, &kind, &width)) {
        luaL_argcheck(lua, at <= len && width <= len - at, 2, "data string too short");
        luaL_checkstack(lua, 2, "too many results");
        if (kind == 'c') {
            lua_pushlstring(lua, text + at, width);
        } else {
            uint64_t v = 0;

            luaL_argcheck(lua, (kind == 'B' || kind == 'I') && width <= WIDEST, 1, "not known");
            for (size_t i = 0; i < width; i++) {
                v = v << 8 | (unsigned char)text[at + i];
            }
            lua_pushnumber(lua, (lua_Number)v);
        }
        at += width;
    }
    lua_pushinteger(lua, (lua_Integer)at + 1);
    return lua_gettop(lua) - 2;
}

void packs_open(lua_State *lua)
{
    lua_newtable(lua);
    lua_pushcfunction(lua, pack);
    lua_setfield(lua, -2, "pack");
    lua_pushcfunction(lua, unpack);
    lua_setfield(lua, -2, "unpack");
    lua_setglobal(lua, "struct");
}
