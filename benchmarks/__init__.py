"""What Moulin costs next to the plain tools, side by side in one run. See README.md."""
