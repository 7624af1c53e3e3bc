// Summary: the facts of `report --full`, its notes, and findings where there is no picture.

import { append } from "dom";
import { findingsList } from "findings";
import { factList, noteList } from "dom";
import { sectionTables } from "sections";

export const view = {
  name: "summary",
  title: "Summary",
  command: (module) => `hlo-lens report ${module.command} --full`,
  render(container, data, page) {
    append(container, [page.module.views.memory ? null : findingsList(page), factList(data.facts),
      sectionTables(data, page), noteList(data.notes)]);
  },
};
