"""The same word count for each system; every program is started in that system's own environment.

Contract: `INPUT`, `OUTPUT` and `STATE` in the environment name directories. Files of lines
`SECOND WORD WORD WORD` appear in INPUT; counts per (second, word) go to OUTPUT as lines
`SECOND,WORD,COUNT`, later ones replacing earlier ones; whatever must survive a kill lies in STATE.
Started again after a kill, a program goes on where it was.
"""
