"""Pictures of the workspace: ``image_info`` identifies and measures, ``view`` answers, made smaller in a sandbox."""
