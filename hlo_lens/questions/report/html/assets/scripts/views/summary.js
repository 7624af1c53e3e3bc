// Summary: the lines at the head of the text report, its notes, and findings where there is no picture.

import { append } from "dom";
import { findingsList } from "findings";
import { factList, noteList } from "dom";
import { sectionTables } from "sections";

export const view = {
  name: "summary",
  title: "Summary",
  command: (module) => `hlo-lens report ${module.command}`,
  howToRead: [
    "Figures are those of one device after partitioning, of one run of the program. What must fit is "
    + "the memory that XLA reserves: arguments, outputs and temporaries (temp), without what outputs "
    + "reuse. The peak is the most that is held at one instant; it is below what must fit where the "
    + "reserved memory has gaps.",
    "donation: arguments whose memory a result takes over, so that it counts once. replicated: bytes "
    + "that several devices hold alike. wire: bytes that a device sends to others. exposed: a transfer "
    + "that other work cannot hide. coverage: how much of the text hlo-lens understood.",
    "A finding names a change of the program and what it saves. At most: an upper bound, XLA may "
    + "save less. Compiled: the program was compiled with the change.",
    "A sign ~ after a source line means that the line was inferred from neighbours, because the value "
    + "has none of its own.",
  ],
  render(container, data, page) {
    append(container, [page.module.views.memory ? null : findingsList(page), factList(data.facts),
      sectionTables(data, page), noteList(data.notes)]);
  },
};
