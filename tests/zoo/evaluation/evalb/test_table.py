"""EVALB's own layout, as far as it is words and columns; the figures in it are counted by hand."""

from zoo.evaluation.evalb.scores import format_table, score_trees
from zoo.text.trees.bracketed import read_tree

GOLD = "(TOP (S (NP (NN a) (NN b)) (VP (VB c)) (. .)))"
LAYOUT = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    4    0  100.00 100.00     3      3    3      0      3     3   100.00
   2    4    0   33.33  50.00     1      3    2      1      3     2    66.67
   3    4    1    0.00   0.00     0      0    0      0      3     0     0.00
============================================================================
                 66.67  80.00      4      6    5      1      6     5    83.33
=== Summary ===

-- All --
Number of sentence        =      3
Number of Error sentence  =      1
Number of Skip  sentence  =      0
Number of Valid sentence  =      2
Bracketing Recall         =  66.67
Bracketing Precision      =  80.00
Complete match            =  50.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  83.33

-- len<=40 --
"""


def test_the_layout():
    outputs = [read_tree(GOLD), read_tree("(S (NN a) (VP (JJ b) (VB c)) (. .))"), None]
    found = format_table(score_trees(outputs, [read_tree(GOLD)] * 3))
    assert found.startswith(LAYOUT)
    every, short = found.split("-- All --\n")[1].split("\n\n-- len<=40 --\n")
    assert short == every


def test_nothing_stands_where_there_is_nothing():
    untagged = score_trees([read_tree("(S (NP (XX a) (XX b)) (VP (XX c) (XX .)))")], [read_tree(GOLD)])
    lines = format_table(untagged).splitlines()
    assert lines[3] == "   1    4    0  100.00 100.00     3      3    3      0      3     -        -"
    assert lines[5] == "                100.00 100.00      3      3    3      1      3     -        -"
    assert lines.count("Tagging accuracy          =      -") == 2
    # Without a bracket to count EVALB leaves its columns out.
    lines = format_table(score_trees([None], [read_tree(GOLD)])).splitlines()
    assert lines[5] == "      0     0     0.00"
    assert "Bracketing Recall         =   0.00" in lines
