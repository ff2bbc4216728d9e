/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* PostgreSQL's scanner (src/backend/parser/scan.l), as far as it decides where literals, quoted
 * names and comments begin and end: what each character does in each state, as a table. The
 * verifier would follow every branch for every character of a text. */
#ifndef SCANNER_BPF_H
#define SCANNER_BPF_H

#include "kernel_types.bpf.h"

enum pgt_class {
	C_OTHER,
	C_BLANK,
	C_NEWLINE,
	C_QUOTE,
	C_DOUBLE_QUOTE,
	C_DOLLAR,
	C_BACKSLASH,
	C_DASH,
	C_SLASH,
	C_STAR,
	C_DOT,
	C_AND,
	C_PLUS,
	C_OPENING, /* what a minus may follow that is a number's sign */
	C_E,	   /* from here on, what may be in a name */
	C_N,
	C_BX,
	C_U,
	C_LETTER,
	C_UNDERSCORE,
	C_DIGIT,
	CLASSES = 32
};

enum pgt_state {
	S_STRING, /* up to S_NAME, a text that ends here is not complete */
	S_STRING_BACKSLASH,
	S_BODY, /* of a string in dollar quotes */
	S_BODY_DOLLAR,
	S_BODY_TAG,
	S_COMMENT,
	S_COMMENT_SLASH,
	S_COMMENT_STAR,
	S_NAME,	     /* in double quotes */
	S_BETWEEN,   /* two tokens, or after one that has no other state */
	S_ENDED,     /* a string, unless a quote follows */
	S_ENDED_GAP, /* it goes on after white space with a line break */
	S_ENDED_LINE,
	S_ENDED_DASH,
	S_ENDED_COMMENT,
	S_LINE_COMMENT,
	S_OPENING, /* a minus that follows is a number's sign, and part of that literal */
	S_SIGN,
	S_DASH,
	S_SLASH,
	S_WORD,
	S_E, /* the whole word so far, which may be a string's prefix */
	S_N,
	S_BX,
	S_U,
	S_U_AND,
	S_DOT,
	S_NUMBER,
	S_NUMBER_DOT,
	S_FRACTION,
	S_NUMBER_E,
	S_NUMBER_PLUS,
	S_NUMBER_MINUS,
	S_EXPONENT,
	S_JUNK, /* letters after a number are taken for part of it */
	S_DOLLAR,
	S_PARAMETER,
	S_TAG,
	STATES = 64
};

/* An entry is the next state, and what is done. */
#define BLANK	      (1u << 8)	 /* white space, which the next symbol tells with this bit */
#define CLEAR	      (1u << 9)	 /* forget white space */
#define LITERAL	      (1u << 10) /* a symbol */
#define RANGE	      (1u << 11) /* another */
#define MIX	      (1u << 12) /* the symbol into the hash */
#define EMIT	      (1u << 13) /* the character is the symbol */
#define SAVE	      (1u << 14) /* the hash as it is before this character */
#define REVERT	      (1u << 15) /* to that */
#define OPEN_PLAIN    (1u << 16) /* a string in which backslashes escape if the server says so */
#define OPEN_ESCAPED  (1u << 17) /* one in which they do */
#define OPEN_RAW      (1u << 18) /* one in which they do not */
#define ESCAPED_QUOTE (1u << 19) /* if backslashes escape */
#define TAG_EMPTY     (1u << 20)
#define TAG_ADD	      (1u << 21)
#define TAG_KEEP      (1u << 22) /* the string ends at the same */
#define TAG_COMPARE   (1u << 23)
#define DEEPER	      (1u << 24) /* comments nest */
#define SHALLOWER     (1u << 25)
#define SELDOM	      (~0u << 14)
#define CHARACTER     (MIX | CLEAR | EMIT)
#define A_LITERAL     (MIX | CLEAR | LITERAL) /* whichever it is */
#define A_RANGE	      (MIX | CLEAR | RANGE)

#define ALWAYS	[0 ... CLASSES - 1]
#define IN_NAME [C_E... C_DIGIT]
#define IN_TAG	[C_E... C_DIGIT]
#define LETTERS [C_E... C_UNDERSCORE]

/* What begins wherever a token has ended */
#define TOKEN                                                                                      \
	ALWAYS = S_BETWEEN | CHARACTER, [C_BLANK] = S_BETWEEN | BLANK,                             \
	[C_NEWLINE] = S_BETWEEN | BLANK, [C_QUOTE] = S_STRING | A_LITERAL | OPEN_PLAIN,            \
	[C_DOUBLE_QUOTE] = S_NAME | CHARACTER,                                                     \
	[C_DOLLAR] = S_DOLLAR | SAVE | CHARACTER | TAG_EMPTY, [C_STAR] = S_OPENING | CHARACTER,    \
	[C_PLUS] = S_OPENING | CHARACTER, [C_OPENING] = S_OPENING | CHARACTER,                     \
	[C_DASH] = S_DASH | SAVE | CHARACTER, [C_SLASH] = S_SLASH | SAVE | CHARACTER,              \
	[C_DOT] = S_DOT | SAVE | CHARACTER, [C_E] = S_E | SAVE | CHARACTER,                        \
	[C_N] = S_N | SAVE | CHARACTER, [C_BX] = S_BX | SAVE | CHARACTER,                          \
	[C_U] = S_U | SAVE | CHARACTER, [C_LETTER] = S_WORD | CHARACTER,                           \
	[C_UNDERSCORE] = S_WORD | CHARACTER, [C_DIGIT] = S_NUMBER | A_LITERAL

/* And after an operator, or what opens an expression */
#define OPENING                                                                                    \
	TOKEN, [C_BLANK] = S_OPENING | BLANK, [C_NEWLINE] = S_OPENING | BLANK,                     \
	       [C_DASH] = S_SIGN | SAVE | CHARACTER

#define WORD  TOKEN, IN_NAME = S_WORD | CHARACTER, [C_DOLLAR] = S_WORD | CHARACTER
#define MINUS OPENING, [C_DASH] = S_LINE_COMMENT | REVERT | BLANK

#define AFTER_STRING                                                                               \
	TOKEN, [C_BLANK] = S_ENDED_GAP | BLANK, [C_NEWLINE] = S_ENDED_LINE | BLANK,                \
	       [C_DASH] = S_ENDED_DASH | SAVE | CHARACTER

#define JUNK	      TOKEN, IN_NAME = S_JUNK
#define STRING_PREFIX S_STRING | REVERT | A_LITERAL
#define DOLLAR_STRING S_BODY | REVERT | A_LITERAL | TAG_KEEP

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winitializer-overrides"

const volatile __u8 character_classes[256] SEC(".rodata.classes") = {
    ['\t'] = C_BLANK,
    ['\n'] = C_NEWLINE,
    ['\v'] = C_BLANK,
    ['\f'] = C_BLANK,
    ['\r'] = C_NEWLINE,
    [' '] = C_BLANK,
    ['\''] = C_QUOTE,
    ['"'] = C_DOUBLE_QUOTE,
    ['$'] = C_DOLLAR,
    ['\\'] = C_BACKSLASH,
    ['-'] = C_DASH,
    ['/'] = C_SLASH,
    ['*'] = C_STAR,
    ['.'] = C_DOT,
    ['&'] = C_AND,
    ['+'] = C_PLUS,
    ['('] = C_OPENING,
    [','] = C_OPENING,
    ['='] = C_OPENING,
    ['<'] = C_OPENING,
    ['>'] = C_OPENING,
    ['['] = C_OPENING,
    ['0' ... '9'] = C_DIGIT,
    ['A' ... 'Z'] = C_LETTER,
    ['a' ... 'z'] = C_LETTER,
    [0x80 ... 0xff] = C_LETTER,
    ['_'] = C_UNDERSCORE,
    ['e'] = C_E,
    ['E'] = C_E,
    ['n'] = C_N,
    ['N'] = C_N,
    ['b'] = C_BX,
    ['B'] = C_BX,
    ['x'] = C_BX,
    ['X'] = C_BX,
    ['u'] = C_U,
    ['U'] = C_U,
};

const volatile __u32 scanner[STATES][CLASSES] SEC(".rodata.scanner") = {
    [S_STRING] = {ALWAYS = S_STRING, [C_QUOTE] = S_ENDED, [C_BACKSLASH] = S_STRING_BACKSLASH},
    [S_STRING_BACKSLASH] = {ALWAYS = S_STRING, [C_QUOTE] = S_ENDED | ESCAPED_QUOTE},
    [S_BODY] = {ALWAYS = S_BODY, [C_DOLLAR] = S_BODY_DOLLAR | TAG_EMPTY},
    [S_BODY_DOLLAR] =
	{ALWAYS = S_BODY,
	 LETTERS = S_BODY_TAG | TAG_ADD, [C_DOLLAR] = S_BODY_DOLLAR | TAG_COMPARE | TAG_EMPTY},
    [S_BODY_TAG] =
	{ALWAYS = S_BODY,
	 IN_TAG = S_BODY_TAG | TAG_ADD, [C_DOLLAR] = S_BODY_DOLLAR | TAG_COMPARE | TAG_EMPTY},
    [S_COMMENT] = {ALWAYS = S_COMMENT, [C_SLASH] = S_COMMENT_SLASH, [C_STAR] = S_COMMENT_STAR},
    [S_COMMENT_SLASH] =
	{ALWAYS = S_COMMENT, [C_SLASH] = S_COMMENT_SLASH, [C_STAR] = S_COMMENT | DEEPER},
    [S_COMMENT_STAR] =
	{ALWAYS = S_COMMENT, [C_SLASH] = S_COMMENT | SHALLOWER, [C_STAR] = S_COMMENT_STAR},
    [S_NAME] = {ALWAYS = S_NAME | CHARACTER, [C_DOUBLE_QUOTE] = S_BETWEEN | CHARACTER},
    [S_BETWEEN] = {TOKEN},
    [S_ENDED] = {AFTER_STRING, [C_QUOTE] = S_STRING},
    [S_ENDED_GAP] = {AFTER_STRING},
    [S_ENDED_LINE] = {AFTER_STRING, [C_BLANK] = S_ENDED_LINE | BLANK, [C_QUOTE] = S_STRING | CLEAR},
    [S_ENDED_DASH] = {MINUS, [C_DASH] = S_ENDED_COMMENT | REVERT | BLANK},
    [S_ENDED_COMMENT] = {ALWAYS = S_ENDED_COMMENT, [C_NEWLINE] = S_ENDED_LINE | BLANK},
    [S_LINE_COMMENT] = {ALWAYS = S_LINE_COMMENT, [C_NEWLINE] = S_BETWEEN | BLANK},
    [S_OPENING] = {OPENING},
    [S_SIGN] = {MINUS, [C_DIGIT] = S_NUMBER | REVERT | A_LITERAL},
    [S_DASH] = {MINUS},
    [S_SLASH] = {OPENING, [C_STAR] = S_COMMENT | REVERT | BLANK | DEEPER},
    [S_WORD] = {WORD},
    [S_E] = {WORD, [C_QUOTE] = STRING_PREFIX | OPEN_ESCAPED},
    [S_N] = {WORD, [C_QUOTE] = STRING_PREFIX | OPEN_PLAIN},
    [S_BX] = {WORD, [C_QUOTE] = STRING_PREFIX | OPEN_RAW},
    [S_U] = {WORD, [C_AND] = S_U_AND | CHARACTER},
    [S_U_AND] = {TOKEN, [C_QUOTE] = STRING_PREFIX | OPEN_RAW},
    [S_DOT] = {TOKEN, [C_DIGIT] = S_FRACTION | REVERT | A_LITERAL,
	       [C_DOT] = S_BETWEEN | REVERT | A_RANGE},
    [S_NUMBER] = {JUNK, [C_DIGIT] = S_NUMBER, [C_UNDERSCORE] = S_NUMBER, [C_DOT] = S_NUMBER_DOT,
		  [C_E] = S_NUMBER_E},
    [S_NUMBER_DOT] = {JUNK, [C_DIGIT] = S_FRACTION, [C_UNDERSCORE] = S_FRACTION,
		      [C_DOT] = S_BETWEEN | A_RANGE, [C_E] = S_NUMBER_E},
    [S_FRACTION] = {JUNK, [C_DIGIT] = S_FRACTION, [C_UNDERSCORE] = S_FRACTION, [C_E] = S_NUMBER_E},
    [S_NUMBER_E] = {JUNK, [C_DIGIT] = S_EXPONENT, [C_PLUS] = S_NUMBER_PLUS | SAVE | CHARACTER,
		    [C_DASH] = S_NUMBER_MINUS | SAVE | CHARACTER},
    [S_NUMBER_PLUS] = {OPENING, [C_DIGIT] = S_EXPONENT | REVERT},
    [S_NUMBER_MINUS] = {MINUS, [C_DIGIT] = S_EXPONENT | REVERT},
    [S_EXPONENT] = {JUNK, [C_DIGIT] = S_EXPONENT},
    [S_JUNK] = {JUNK},
    [S_DOLLAR] = {TOKEN, LETTERS = S_TAG | CHARACTER | TAG_ADD, [C_DIGIT] = S_PARAMETER | CHARACTER,
		  [C_DOLLAR] = DOLLAR_STRING},
    [S_PARAMETER] = {TOKEN, [C_DIGIT] = S_PARAMETER | CHARACTER},
    [S_TAG] = {TOKEN, IN_TAG = S_TAG | CHARACTER | TAG_ADD, [C_DOLLAR] = DOLLAR_STRING},
};

#pragma clang diagnostic pop

#endif
