// Words of commands for the shell.

export function quoted(word) {
  return `'${word.replace(/'/g, "'\\''")}'`;
}
