"""The instructions of a compiled program, and the positions of their operands.

A program is a flat row of integers, `STRIDE` per instruction, so that the machine is compiled once for all schemas.

Invariant: an instruction that reads a number leaves it as `value` for the next instruction. An instruction that reads
bytes leaves their place as `mark`.
"""

from enum import IntEnum

STRIDE = 8
# Operands of several instructions; 0 is the opcode itself.
KEPT = 1  # whether the bytes are part of the output: a number of needless length is then written anew
ARGUMENT = 2
DEPTH = 3
WEIGHT = 4
COUNTER = 5
SHOWN = 6


class Op(IntEnum):
    """The effect of an instruction; `ARGUMENT` in brackets. The machine compares groups by their last member."""

    NUMBER = 0  # int or long [longest encoding in bytes]
    TEXT = 1  # string that must be UTF-8
    BYTES = 2  # bytes, or text that nobody reads
    SIZED = 3  # fixed, float, double [bytes]
    ENUM = 4  # [number of symbols]
    BOOLEAN = 5

    COUNT = 6  # one more for the counter
    BYTES_LOOK = 7  # [asker] the bytes just read are shown to somebody; nothing happens to them
    NUMBER_LOOK = 8  # the same for a number
    BYTES_SPAN = 9  # [asker] the bytes just read are an operator's; counted, and keeping resumes
    NUMBER_SPAN = 10  # the same for a number
    CONSTANT = 11  # [operator call] its one result stands here; counted, and keeping resumes

    CUT = 12  # what is kept ends here
    RESUME = 13  # and begins here
    UNION = 14  # [its rows in the table of branches], number of branches in WEIGHT; counted from COUNTER on, by branch
    ENTER = 15  # a container: checks depth and weight
    JUMP = 16  # [target]
    BLOCKS = 17  # an array or map begins [its NEXT]
    NEXT = 18  # an item ends [the first instruction of the next one]; counted
    CALL = 19  # [target]
    RETURN = 20
    END = 21


LAST_VALUE = Op.BOOLEAN
LAST_LOOK = Op.NUMBER_LOOK
LAST_COUNTED = Op.CONSTANT
